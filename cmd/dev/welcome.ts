import { createHash } from 'node:crypto'
import { sessionIdleMsMax, sessionMsMax } from '#internal/access/index.ts'
import type { Clock, TenantId } from '#internal/base/index.ts'
import { demoHeader, TerminalLines, timeOf } from '#internal/dev/index.ts'
import type { RefusedNote } from '#internal/intake/index.ts'
import type { Directory, DirectoryTenant } from '#internal/tenants/index.ts'
import type { DevTenants } from './tenants.ts'

export interface Welcome {
  readonly tenants: DevTenants
  /** True if the sample tenant's key is valid, so that the example call can use it. */
  readonly hasSampleKey: boolean
  readonly tenantsDir: string
  /** Data folder to name in calls of `npm run latchkey`. Undefined for the default folder. */
  readonly dataDir: string | undefined
  /** Base URLs of the API and the ops port, without a trailing slash. */
  readonly apiUrl: string
  readonly opsUrl: string
  readonly sinkUrl: string
  /** URL of the dashboard, with the sign-in token of this server. */
  readonly dashboard: string
}

/**
 * Slug and API key of the sample tenant in `config/samples/dev/demo.yaml`. The key is public. The dev server never prints any other key.
 */
export const sampleTenant = { slug: 'demo', apiKey: 'lk_demo_0000000000000000000000000000' } as const

const hourMs = 3_600_000
const tenantsShownMax = 10
const complaintsShownMax = 10
/** Number of lines after which the welcome text has scrolled out of a typical terminal. */
const scrolledLines = 40

/** Returns the welcome text for the terminal: the addresses, the tenants, and an example call to copy. */
export function welcomeText(welcome: Welcome): string {
  const { tenants, hasSampleKey, tenantsDir, dataDir, apiUrl, opsUrl, sinkUrl, dashboard } = welcome
  const shown = tenants.inForce.slice(0, tenantsShownMax).map(({ namespace, name }) => `${namespace}/${name}`)
  const others = tenants.inForce.length - shown.length
  const list = shown.length === 0 ? 'none' : shown.join(', ') + (others > 0 ? ` and ${others} more` : '')
  const complaints = tenants.complaints.slice(0, complaintsShownMax).map((text) => `\n           ! ${text}`)
  const [key, whose] = hasSampleKey
    ? [sampleTenant.apiKey, '']
    : ['$LATCHKEY_API_KEY', ' (LATCHKEY_API_KEY: an API key of your tenant)']
  const login =
    dataDir === undefined
      ? ''
      : `\n  For npm run latchkey, in its terminal:\n\n    export LATCHKEY_DATA_DIR='${dataDir.replaceAll("'", `'\\''`)}'\n`
  return `
  Pages    ${dashboard}
           the dashboard. The token stays the same until the data folder is deleted. A session
           lasts ${sessionMsMax / hourMs} h, or ${sessionIdleMsMax / hourMs} h without use, even after a restart
  API      ${apiUrl}/v1/openapi.json
  Ops      ${opsUrl}/readyz   /livez   /metrics
  Sink     ${sinkUrl}   shows what callbacks at http://sink.localhost/ receive
  Tenants  ${list}   (${tenantsDir})${complaints.join('')}
${login}
  Has order 1 already run?${whose}

    curl -s ${apiUrl}/v1/record -H "Authorization: Bearer ${key}" \\
      -H 'Content-Type: application/json' -d '{"scope":"orders","key":"1"}'

  Ctrl-C stops everything.

`
}

export function knowsSampleKey(directory: Directory): boolean {
  const sha256 = createHash('sha256').update(sampleTenant.apiKey).digest('base64')
  return directory.findKey(sha256) !== undefined
}

/**
 * Returns a function that prints its line with `say`. After every 40 lines it also prints the line of `scrolledAway` again, because that
 * line has scrolled out of view.
 */
export function repeating(say: (line: string) => void, scrolledAway: () => string): (line: string) => void {
  let lines = 0
  return (line) => {
    say(line)
    lines += 1
    if (lines % scrolledLines === 0) say(scrolledAway())
  }
}

export const refusedLinesPerSecondMax = 10

/** Returns a function that prints a line for each refused call, except those of the demo: provider, cause and tenant. Never throws. */
export function createRefusedLines({
  say,
  clock,
  findTenant,
}: {
  readonly say: (line: string) => void
  readonly clock: Clock
  findTenant(id: TenantId): Pick<DirectoryTenant, 'slug' | 'name'> | undefined
}) {
  const lines = new TerminalLines(say, clock, refusedLinesPerSecondMax)
  return ({ tenantId, provider, cause, headers }: RefusedNote): void => {
    if (headers.has(demoHeader)) return
    lines.show((nowMs) => {
      const tenant = findTenant(tenantId)
      return `${timeOf(nowMs)} ${provider} refused: ${cause} → ${tenant?.slug ?? tenant?.name ?? '?'}`
    })
  }
}
