"""Profile -> certified table: features, one estimator a file, margins, metrics, validation."""
