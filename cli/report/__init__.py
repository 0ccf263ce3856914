"""The report of a table as one HTML page: what is shown (evidence, concerns), how it is drawn, how it is written."""
