import { testPython } from './conformance-suite.ts'

testPython('change')
