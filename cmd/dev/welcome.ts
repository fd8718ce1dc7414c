import { createHash } from 'node:crypto'
import { sessionIdleMsMax, sessionMsMax } from '#internal/access/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { sampleTenant } from './sample.ts'
import type { DevTenants } from './tenants.ts'

/** What there is to say once everything runs. */
export interface Welcome {
  readonly tenants: DevTenants
  /** Whether the sample tenant's key is in force, and may stand in the call. */
  readonly hasSampleKey: boolean
  readonly tenantsDir: string
  /** Base URLs of the API and the ops port, without / at the end. */
  readonly apiUrl: string
  readonly opsUrl: string
  /** Where deliveries are shown. */
  readonly sinkUrl: string
  /** The dashboard's address, with the token that lets this person in until this server ends. */
  readonly dashboard: string
}

/** Public; nobody else's key is ever printed. */
const sampleKey = sampleTenant.apiKey
const hourMs = 3_600_000
const tenantsShownMax = 10
const complaintsShownMax = 10

/** Prints the addresses, the tenants in force, and a first call to paste. */
export function printWelcome(welcome: Welcome): void {
  process.stdout.write(welcomeText(welcome))
}

/** What `printWelcome` prints. */
export function welcomeText(welcome: Welcome): string {
  const { tenants, hasSampleKey, tenantsDir, apiUrl, opsUrl, sinkUrl, dashboard } = welcome
  const shown = tenants.inForce.slice(0, tenantsShownMax).map(({ namespace, name }) => `${namespace}/${name}`)
  const more =
    tenants.inForce.length > shown.length ? ` and ${tenants.inForce.length - shown.length} more` : ''
  const list = shown.length === 0 ? 'none in force' : `${shown.join(', ')}${more}`
  const complaints = tenants.complaints.slice(0, complaintsShownMax).map((text) => `\n           ! ${text}`)
  const key = hasSampleKey ? sampleKey : '<api key>'
  return `
  Pages    ${dashboard}
           the dashboard. The token signs in until this server ends; whoever is signed in stays so for
           ${sessionMsMax / hourMs} h, or ${sessionIdleMsMax / hourMs} h without use, over restarts as well
  API      ${apiUrl}/v1/openapi.json
  Ops      ${opsUrl}/readyz   /livez   /metrics
  Sink     ${sinkUrl}   shows what callbacks at http://sink.localhost/ receive
  Tenants  ${list}   (${tenantsDir})${complaints.join('')}

  Has order 1 already run?

    curl -s ${apiUrl}/v1/record -H 'Authorization: Bearer ${key}' \\
      -H 'Content-Type: application/json' -d '{"scope":"orders","key":"1"}'

  Ctrl-C ends everything.

`
}

/** Whether the sample tenant's key is in force. */
export function knowsSampleKey(directory: Directory): boolean {
  const sha256 = createHash('sha256').update(sampleKey).digest('base64')
  return directory.findKey(sha256) !== undefined
}
