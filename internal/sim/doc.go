// Package sim implements the software driver of package cusim: the functions of the driver API, as
// a [driver.Software], and the model of a device. Package cusim documents the options and controls.
//
// One mutex, Driver.mu, guards everything in a driver but its clock, which has its own mutex. A
// call that waits for work releases Driver.mu during the wait.
package sim
