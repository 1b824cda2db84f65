// Package sim is the software driver behind package cusim, which makes it and controls it
// for tests: the functions of the driver API, as a [driver.Software], and the model of a
// device that they work on. What an option or a control does is documented at package cusim.
//
// One mutex, Driver.mu, guards all of a driver but its clock, which has a mutex of its own. A
// call that waits for work releases it meanwhile.
package sim
