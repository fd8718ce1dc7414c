import { afterAll, afterEach } from 'bun:test'
import './processes/exit-signals.ts'
import { failOnDeliveryProblems } from './events/delivery-problems.ts'
import { stopTestStores } from './stores.ts'

afterEach(failOnDeliveryProblems)
afterAll(stopTestStores)
// Checks the deliveries after the last test.
afterAll(failOnDeliveryProblems)
