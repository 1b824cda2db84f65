import ctypes
import unittest


class GPUs(unittest.TestCase):
    def setUp(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.assertEqual(self.cuda.cuInit(0), 0)

    def test_names(self):
        count = ctypes.c_int()
        self.assertEqual(self.cuda.cuDeviceGetCount(ctypes.byref(count)), 0)
        names = []
        for i in range(count.value):
            name = ctypes.create_string_buffer(100)
            self.assertEqual(self.cuda.cuDeviceGetName(name, len(name), i), 0)
            names.append(name.value.decode())
        self.assertEqual(len(names), 2)
        self.assertIn("A100", names[0])
        self.assertIn("T4", names[1])
