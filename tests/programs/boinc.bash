# BOINC: the client's search for GPUs
# packages: boinc-client
# note: It reads the device's attributes from the driver API.
check detect boinc --detect_gpus
says count '<count>1</count>' cat coproc_info.xml
says name '<name>Simulated H200</name>' cat coproc_info.xml
says capability '<major>9</major>' cat coproc_info.xml
