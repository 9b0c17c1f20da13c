"""Activities about a pod as a whole: directories, predecessor, deletion of its object."""
