import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'
import { createCa, type TestIdentity } from '#test/support/stores/pki.ts'
import { type Environment, readConfig } from './read.ts'

const folder = scratchFolder()
const path = (name: string) => join(folder, name)
const stores = {
  LATCHKEY_DATABASE_URL: 'postgres://app:pw@db:5432/latchkey',
  LATCHKEY_REDIS_URL: 'rediss://:pw@redis:6379',
  LATCHKEY_KEY_RING: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
}
let client: TestIdentity

beforeAll(() => {
  const ca = createCa(folder, 'ca')
  client = ca.issue('client')
  ca.issue('other')
  writeFileSync(path('empty.pem'), '')
  writeFileSync(path('broken.pem'), '-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n')
})
afterAll(() => rmSync(folder, { recursive: true }))

function problemsOf(env: Environment): readonly string[] {
  const read = readConfig({ ...stores, ...env }, { process: 'api' })
  return read.kind === 'invalid' ? read.problems : []
}

const url = (query: string) => `${stores.LATCHKEY_DATABASE_URL}${query}`
const ca = () => path('ca.crt')

describe('TLS of a store', () => {
  test('store TLS: accepts a CA, a client certificate with its key, and a server name', () => {
    const env = {
      LATCHKEY_DATABASE_TLS_CA_FILE: ca(),
      LATCHKEY_DATABASE_TLS_CERT_FILE: client.cert,
      LATCHKEY_DATABASE_TLS_KEY_FILE: client.key,
      LATCHKEY_DATABASE_TLS_SERVER_NAME: 'db.example',
      LATCHKEY_DATABASE_URL: url('?sslmode=verify-full'),
      LATCHKEY_REDIS_TLS_CA_FILE: ca(),
    }
    expect(problemsOf(env)).toEqual([])
  })

  test.each<[name: string, file: string, fault: string]>([
    ['that is missing', 'absent.pem', 'it cannot be read (ENOENT)'],
    ['that is a folder', '', 'it cannot be read (EISDIR)'],
    ['that is empty', 'empty.pem', 'it contains no PEM certificate'],
    ['that is a key', 'client.key', 'it contains no PEM certificate'],
    ['with an invalid certificate', 'broken.pem', 'its certificate 1 cannot be read'],
  ])('store TLS: rejects a CA file %s, and names the setting', (_name, file, fault) => {
    expect(problemsOf({ LATCHKEY_REDIS_TLS_CA_FILE: path(file) })).toEqual([
      `LATCHKEY_REDIS_TLS_CA_FILE: expected the path of a readable PEM file: ${fault}`,
    ])
  })

  test.each<[name: string, env: () => Environment, problem: string]>([
    [
      'a key that is a certificate',
      () => ({ LATCHKEY_REDIS_TLS_CERT_FILE: client.cert, LATCHKEY_REDIS_TLS_KEY_FILE: client.cert }),
      'LATCHKEY_REDIS_TLS_KEY_FILE: expected the path of a readable PEM file: it contains no unencrypted PEM private key',
    ],
    [
      'a certificate without its key',
      () => ({ LATCHKEY_REDIS_TLS_CERT_FILE: client.cert }),
      'LATCHKEY_REDIS_TLS_CERT_FILE needs LATCHKEY_REDIS_TLS_KEY_FILE',
    ],
    [
      'a key without its certificate',
      () => ({ LATCHKEY_DATABASE_TLS_KEY_FILE: client.key }),
      'LATCHKEY_DATABASE_TLS_KEY_FILE needs LATCHKEY_DATABASE_TLS_CERT_FILE',
    ],
    [
      'the key of another certificate',
      () => ({
        LATCHKEY_DATABASE_TLS_CERT_FILE: client.cert,
        LATCHKEY_DATABASE_TLS_KEY_FILE: path('other.key'),
      }),
      'LATCHKEY_DATABASE_TLS_KEY_FILE does not belong to LATCHKEY_DATABASE_TLS_CERT_FILE',
    ],
    [
      'TLS settings for a plain-text Redis URL',
      () => ({ LATCHKEY_REDIS_TLS_CA_FILE: ca(), LATCHKEY_REDIS_URL: 'redis+cluster://:pw@redis' }),
      'LATCHKEY_REDIS_TLS_CA_FILE contradicts LATCHKEY_REDIS_URL: its connection is not encrypted: begin it with rediss:// (rediss+sentinel://, …)',
    ],
    ...['disable', 'allow', 'prefer', 'no-verify'].map((mode): [string, () => Environment, string] => [
      `sslmode=${mode}`,
      () => ({ LATCHKEY_DATABASE_TLS_CA_FILE: ca(), LATCHKEY_DATABASE_URL: url(`?sslmode=${mode}`) }),
      'LATCHKEY_DATABASE_TLS_CA_FILE contradicts LATCHKEY_DATABASE_URL: its sslmode does not verify the server: remove it, or use sslmode=verify-full',
    ]),
    [
      'ssl=0',
      () => ({ LATCHKEY_DATABASE_TLS_SERVER_NAME: 'db', LATCHKEY_DATABASE_URL: url('?ssl=0') }),
      'LATCHKEY_DATABASE_TLS_SERVER_NAME contradicts LATCHKEY_DATABASE_URL: its parameter ssl does not verify the server: remove it',
    ],
    [
      'a second CA in the Postgres URL',
      () => ({ LATCHKEY_DATABASE_TLS_CA_FILE: ca(), LATCHKEY_DATABASE_URL: url('?sslrootcert=/ca.crt') }),
      'LATCHKEY_DATABASE_TLS_CA_FILE contradicts LATCHKEY_DATABASE_URL: its parameter sslrootcert sets the same: remove it',
    ],
    [
      'TLS settings for a Unix socket',
      () => ({
        LATCHKEY_DATABASE_TLS_CA_FILE: ca(),
        LATCHKEY_DATABASE_URL: 'postgres:///latchkey?host=/run',
      }),
      'LATCHKEY_DATABASE_TLS_CA_FILE contradicts LATCHKEY_DATABASE_URL: TLS does not apply to a Unix socket: use a host, or unset the TLS settings',
    ],
  ])('store TLS: rejects %s', (_name, env, problem) => {
    expect(problemsOf(env())).toEqual([problem])
  })

  test('store TLS: TLS settings are rejected for the embedded stores of dev', () => {
    const read = readConfig({ LATCHKEY_REDIS_TLS_CA_FILE: ca() }, { process: 'dev' })
    expect(read.kind === 'invalid' && read.problems).toEqual([
      'LATCHKEY_REDIS_TLS_CA_FILE needs LATCHKEY_REDIS_URL',
    ])
  })
})
