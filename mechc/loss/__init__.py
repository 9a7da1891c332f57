"""The privacy loss as numbers: quadrature nodes, atoms, grids."""
