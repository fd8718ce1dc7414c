import { testTypeScript } from './typescript-suite.ts'

testTypeScript('change')
