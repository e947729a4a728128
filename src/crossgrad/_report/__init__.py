"""Tables, figures and the page, made from the files of runs only."""
