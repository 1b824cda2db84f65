package main

import "strings"

// spelling has the words of C's constants that Go does not write with one capital.
var spelling = func() map[string]string {
	m := map[string]string{}
	for word := range strings.FieldsSeq(spellings) {
		from, to, changed := strings.Cut(word, "=")
		if !changed {
			to = from // an initialism
		}
		m[from] = to
	}
	return m
}()

const spellings = `
ADM1032 ADT7461 ADT7473 ADT7473S AMD API ATS AV1 BAR1 BER BRO4 C2C CBU CCD CPU CRC CUDA DBE DFMA DRAM E551 ECC FB
FEC FP16 FP32 FP64 G781 GPC GPU GSP HBM HEVC HMM HMMA HPC ID IMMA IO JPG L1 L2 LLM LM64 LM89 LM99 MAX1617 MAX6649
MAX6649R MCDM MIG NIC NOP NVDEC NVENC NVIDIA NVLE NVS OFA OS P2P PCI PLX PSU RBM RTX RX SBE SBMAX6649 SEV SHM SM SMC
SNP SRAM SRIOV TDX TEX TLC TLP TMP TX UUID VBIOSEVT VCD VCS VF VGPU VM VPC VSGA VTOM VWS WDDM WDM XID
BW=Bandwidth CLASSIFICATIONMAP=ClassificationMap CONTINOUS=Continuous DCPCIE=DCPCIe DIFFMAP=DifferenceMap
FW=Firmware GEFORCE=GeForce GPUDIRECT=GPUDirect HW=Hardware HWENC=HardwareEncoder MEM=Memory
NRATOM=AtomicWithoutResult NVLINK=NVLink NVLINKS=NVLinks NVSYSCON=NVSysCon PCIE=PCIe PROD=Production PSTATE=PState
PWR=Power RATOM=Atomic RESPDATA=ResponseWithData RESPNODATA=ResponseWithoutData SEC=Second SIM=Simulation
SN=SerialNumber SW=Software SYSGUID=SystemGUID TOSYS=ToSystem UTIL=Utilization VAPPS=VApps VGAMING=VGaming VID=Video
VWORKSTATION=VWorkstation
`
