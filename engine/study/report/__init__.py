"""A finished study for reading: the HTML page and the page of evidence."""
