"""The sampler: modules that are joined to one text and run on the target (see script.py); nothing of it runs here."""
