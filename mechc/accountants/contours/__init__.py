"""The contour integral: placement, transforms, proofs of decay, images, inversion."""
