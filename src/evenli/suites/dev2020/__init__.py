"""The templates of Dev et al. 2020."""
