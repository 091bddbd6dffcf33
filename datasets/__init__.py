"""Training data: upload, validate, keep by digest. Knows nothing of jobs."""
