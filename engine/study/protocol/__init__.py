"""The paper's protocol over many families: what is varied, the rows of one family, and the resumable run."""
