import { expect, test } from 'bun:test'
import { readConfig } from '#internal/config/index.ts'
import { fallbacksOf } from './ports.ts'

test('what stands in for a default port is no other default port', () => {
  const read = readConfig({}, { process: 'dev' })
  if (read.kind === 'invalid') throw new Error(read.problems.join())
  const { apiPort, backofficePort, opsPort, devSinkPort } = read.config
  const defaults = [apiPort, backofficePort, opsPort, devSinkPort]
  const fallbacks = defaults.flatMap((port) => fallbacksOf(port))
  expect(fallbacks.filter((port) => defaults.includes(port) || port > 65_535)).toEqual([])
})
