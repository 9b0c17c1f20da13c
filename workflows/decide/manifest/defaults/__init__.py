"""What a pod gets where its manifest says nothing."""
