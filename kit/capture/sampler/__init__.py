"""The sampler: modules that are joined to one text and run on the target (see script.py); here only its pure functions run."""
