package config

// ReadDhall is for tests, which set its time limit.
var ReadDhall = readDhall
