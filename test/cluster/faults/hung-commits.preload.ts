// Loaded before the operator. After SIGUSR2, beginning a Postgres transaction neither succeeds nor fails: simulates a driver bug that no
// timeout of the operator ends.
import { Client } from 'pg'

const { prototype } = Client as unknown as { prototype: { query: (...args: unknown[]) => unknown } }
const query = prototype.query
let isHung = false
process.on('SIGUSR2', () => {
  isHung = true
})
prototype.query = function (this: unknown, ...args: unknown[]) {
  return isHung && args[0] === 'BEGIN' ? new Promise(() => undefined) : query.apply(this, args)
}
