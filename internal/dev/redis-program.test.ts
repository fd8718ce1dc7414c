import { expect, test } from 'bun:test'
import { readVersion } from './redis-program.ts'

test.each([
  [
    'Redis 7',
    'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0',
    '7.0.15',
  ],
  [
    'Redis 6',
    'Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=a3fdef44459b3ad6',
    '6.0.16',
  ],
  [
    'Valkey',
    'Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=2af2a1f5b3ef0c11',
    '8.1.1',
  ],
  ['something else', 'usage: redis-server', undefined],
])('the version is read: %s', (_case, text, expected) => {
  expect(readVersion(text)).toBe(expected)
})
