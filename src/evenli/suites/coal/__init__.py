"""NLI-CoAL (Anantaprayoon et al. 2024): pro-, anti- and non-stereotypical pairs."""
