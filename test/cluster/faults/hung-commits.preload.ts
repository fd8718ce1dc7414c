// Loaded before an operator's own code: from SIGUSR2 on no transaction of its Postgres driver begins, nor fails. A hang that no
// bound of ours cuts short, as a bug in a driver would be.
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
