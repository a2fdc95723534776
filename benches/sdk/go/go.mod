module measure-boundary

go 1.24
