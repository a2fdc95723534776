module tidegate-sdk

go 1.24
