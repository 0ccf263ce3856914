"""Profile -> certified table: selection, margins, metrics, certificates, validation, comparison."""
