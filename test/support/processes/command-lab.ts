import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestApi, type TestApi } from '../api.ts'
import { adminToken, startTestBackoffice, type TestBackoffice } from '../backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '../dashboard/backoffice-tenants.ts'
import { type LatchkeyRun, latchkey } from './latchkey.ts'

/** Scopes of the key of each tenant. */
const scopesOf = {
  acme: '[events, "payloads:read", records, simulations]',
  rival: '[events]',
  reader: '["events:read"]',
  plain: '[records]',
} as const

/** Tenant of a command lab. */
export type LabTenant = keyof typeof scopesOf

/** API and back office in this process, for commands that call them. */
export interface CommandLab {
  readonly api: TestApi
  readonly backoffice: TestBackoffice
  /** Rows of each tenant. */
  readonly seeded: Readonly<Record<LabTenant, SeededTenant>>
  /** Folder for XDG_CONFIG_HOME. */
  readonly configFolder: string
  /** Variables that connect a command as a tenant, and with the local admin's token. */
  env(tenant?: LabTenant): Readonly<Record<string, string>>
  /** Runs a command as acme, or as the local admin. */
  run(...args: readonly string[]): Promise<LatchkeyRun>
  /** Runs a command as acme, or as the local admin, with `--json`. Fails the test unless it succeeds and prints one document. */
  json<Answer = Record<string, unknown>>(...args: readonly string[]): Promise<Answer>
  close(): Promise<void>
}

/** Starts a lab. The caller closes it. @param callbackUrl URL of each tenant's callback */
export async function startCommandLab(callbackUrl?: string): Promise<CommandLab> {
  const names = Object.keys(scopesOf) as LabTenant[]
  const manifests = names
    .map((name) =>
      dashboardTenantYaml(name, {
        scopes: scopesOf[name],
        providers: ['card', 'storefront', 'generic'],
        ...(callbackUrl !== undefined && { callbackUrl }),
      }),
    )
    .join('')
  const backoffice = await startTestBackoffice(manifests)
  const api = await startTestApi({ databaseUrl: backoffice.databaseUrl, manifests })
  const seeded = {} as Record<LabTenant, SeededTenant>
  for (const name of names) seeded[name] = await seedTenant(backoffice, name)
  const configFolder = mkdtempSync(join(tmpdir(), 'latchkey-config-'))
  const env = (tenant: LabTenant = 'acme') => ({
    XDG_CONFIG_HOME: configFolder,
    LATCHKEY_URL: api.url,
    LATCHKEY_API_KEY: dashboardKey(tenant),
    LATCHKEY_INTERNAL_URL: backoffice.url,
    LATCHKEY_TOKEN: adminToken,
  })
  return {
    api,
    backoffice,
    seeded,
    configFolder,
    env,
    run: (...args) => latchkey(args, env()),
    async json<Answer>(...args: readonly string[]) {
      const { code, out, err } = await latchkey([...args, '--json'], env())
      if (code !== 0) throw new Error(`${args.join(' ')}: ${code} ${out} ${err}`)
      return JSON.parse(out) as Answer
    },
    async close() {
      await api.close()
      await backoffice.close()
      rmSync(configFolder, { recursive: true, force: true })
    },
  }
}
