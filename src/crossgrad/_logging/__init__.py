"""Where the numbers of a run's records go besides its folder: TensorBoard, MLflow, Weights & Biases, a CSV file."""
