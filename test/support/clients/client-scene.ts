import { startTestApi, testApiKey } from '../api.ts'
import { adminToken, startTestBackoffice } from '../backoffice.ts'
import { providerSecret, webhookTenantYaml } from '../intake/webhook-calls.ts'

/** API and back office, each on stores of its own, for the programs of `test/clients`. */
export interface ClientScene {
  /** Addresses and credentials, as environment variables of a client program. */
  readonly env: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Starts an API and a back office with the tenant `acme`. The caller closes them. */
export async function startClientScene(): Promise<ClientScene> {
  const manifests = webhookTenantYaml('acme', testApiKey)
  const api = await startTestApi({ manifests })
  const backoffice = await startTestBackoffice(manifests)
  return {
    env: {
      API_URL: api.url,
      API_KEY: testApiKey,
      PROVIDER_SECRET: providerSecret,
      BACKOFFICE_URL: backoffice.url,
      BACKOFFICE_TOKEN: adminToken,
    },
    async close() {
      await api.close()
      await backoffice.close()
    },
  }
}

/** Output of a finished program. */
export interface Finished {
  readonly exitCode: number | null
  readonly output: string
}

/** Runs a program to its end, with its output and errors in one text. The environment of the test is kept. */
export async function runToEnd(
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Finished> {
  const child = Bun.spawn([...command], {
    env: { ...process.env, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 240_000,
  })
  const texts = await Promise.all([child.stdout.text(), child.stderr.text()])
  await child.exited
  return { exitCode: child.exitCode, output: texts.join('') }
}
