"""What containers write: the files, their rotation, who reads them, and the links by their old names."""
