"""Which fields and objects an environment variable or volume takes its contents from."""
