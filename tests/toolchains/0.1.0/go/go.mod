module uppercase

go 1.24
