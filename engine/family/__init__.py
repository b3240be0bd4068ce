"""The candidates of a teacher: recipes, their weights, their cost. Knows no image and no prediction."""
