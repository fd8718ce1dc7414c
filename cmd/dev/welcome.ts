import type { TenantSource } from '#internal/tenants/index.ts'

/** What there is to say once everything runs. */
export interface Welcome {
  readonly source: TenantSource
  readonly tenantsDir: string
  readonly port: number
  readonly opsPort: number
}

/** The sample tenant's key, which is public; nobody else's is ever printed. */
const sample = { namespace: 'demo', name: 'demo-api-key', key: 'lk_demo_0000000000000000000000000000' }
const tenantsShownMax = 10

/** Prints the addresses, the tenants, and a first call to paste. */
export async function printWelcome(welcome: Welcome): Promise<void> {
  const { port, opsPort } = welcome
  const { tenants, problems } = await welcome.source.read()
  const names = tenants.slice(0, tenantsShownMax).map(({ namespace, name }) => `${namespace}/${name}`)
  const more = tenants.length > names.length ? ` and ${tenants.length - names.length} more` : ''
  const isSample = await hasSampleKey(welcome.source)
  process.stdout.write(
    `
  API      http://127.0.0.1:${port}/v1/openapi.json
  Ops      http://127.0.0.1:${opsPort}/readyz   /livez   /metrics
  Tenants  ${names.join(', ')}${more}   (${welcome.tenantsDir}${problems.length > 0 ? `; what cannot be used is reported in the log below` : ''})

  Has order 1 already run?

    curl -s http://127.0.0.1:${port}/v1/record -H 'Authorization: Bearer ${isSample ? sample.key : '<api key>'}' \\
      -H 'Content-Type: application/json' -d '{"scope":"orders","key":"1"}'

  Ctrl-C ends everything.

`,
  )
}

async function hasSampleKey(source: TenantSource): Promise<boolean> {
  const read = await source.readSecret(sample.namespace, sample.name)
  return read.kind === 'found' && [...read.secret.values.values()].includes(sample.key)
}
