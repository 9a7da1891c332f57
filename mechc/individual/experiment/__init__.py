"""Individual privacy in real training runs: DP-SGD and filtered DP-GD on data that ships.

`python -m mechc.individual.experiment` trains a small network on scikit-learn's digits and breast
cancer sets, follows every training example, and draws who lost how much privacy. It needs the
optional extra `mechc[experiment]`.

Individual losses depend on the data of the person they belong to. They are shown here because both
data sets are public; those of a private data set must not be published.
"""
