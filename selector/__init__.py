"""What is likely to break: features, model, calibration, backtest, scheduler."""
