import { createHash } from 'node:crypto'
import type { Directory } from '#internal/tenants/index.ts'
import { sampleTenant } from './sample.ts'
import type { DevTenants } from './tenants.ts'

/** What there is to say once everything runs. */
export interface Welcome {
  readonly tenants: DevTenants
  /** Whether the sample tenant's key is in force, and may stand in the call. */
  readonly hasSampleKey: boolean
  readonly tenantsDir: string
  readonly port: number
  readonly opsPort: number
  /** Where deliveries are shown. */
  readonly sinkUrl: string
  /** Where the dashboard is, and what lets this person in; good until this server ends. */
  readonly dashboard: { readonly port: number; readonly token: string }
}

/** Public; nobody else's key is ever printed. */
const sampleKey = sampleTenant.apiKey
const tenantsShownMax = 10
const complaintsShownMax = 10

/** Prints the addresses, the tenants in force, and a first call to paste. */
export function printWelcome(welcome: Welcome): void {
  process.stdout.write(welcomeText(welcome))
}

/** What `printWelcome` prints. */
export function welcomeText(welcome: Welcome): string {
  const { tenants, hasSampleKey, tenantsDir, port, opsPort, sinkUrl, dashboard } = welcome
  const shown = tenants.inForce.slice(0, tenantsShownMax).map(({ namespace, name }) => `${namespace}/${name}`)
  const more =
    tenants.inForce.length > shown.length ? ` and ${tenants.inForce.length - shown.length} more` : ''
  const list = shown.length === 0 ? 'none in force' : `${shown.join(', ')}${more}`
  const complaints = tenants.complaints.slice(0, complaintsShownMax).map((text) => `\n           ! ${text}`)
  const key = hasSampleKey ? sampleKey : '<api key>'
  return `
  Pages    http://127.0.0.1:${dashboard.port}/sign-in#token=${dashboard.token}
           the dashboard; the token counts until this server ends
  API      http://127.0.0.1:${port}/v1/openapi.json
  Ops      http://127.0.0.1:${opsPort}/readyz   /livez   /metrics
  Sink     ${sinkUrl}   shows what callbacks at http://sink.localhost/ receive
  Tenants  ${list}   (${tenantsDir})${complaints.join('')}

  Has order 1 already run?

    curl -s http://127.0.0.1:${port}/v1/record -H 'Authorization: Bearer ${key}' \\
      -H 'Content-Type: application/json' -d '{"scope":"orders","key":"1"}'

  Ctrl-C ends everything.

`
}

/** Whether the sample tenant's key is in force. */
export function knowsSampleKey(directory: Directory): boolean {
  const sha256 = createHash('sha256').update(sampleKey).digest('base64')
  return directory.findKey(sha256) !== undefined
}
