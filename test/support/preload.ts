import { afterAll } from 'bun:test'
import './exit-signals.ts'
import { stopTestStores } from './stores.ts'

afterAll(stopTestStores)
