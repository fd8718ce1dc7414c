import { resolve } from 'node:path'
import { createTransport, fromKubeconfig } from '#internal/kube/index.ts'

const root = resolve(import.meta.dir, '../..')
const kubectlMsMax = 30_000

/** Answer of the API server. */
export interface Answer {
  readonly status: number
  /** Message of a refusal; else empty. */
  readonly message: string
  /** Fields that a refusal names. */
  readonly fields: readonly string[]
  readonly body: Readonly<Record<string, unknown>>
}

/** Request to the API server. */
export interface Ask {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly contentType?: string
}

/** Opens the API server of KUBECONFIG as its user, or impersonating `user`. */
export async function openTenantApi(user?: string): Promise<(ask: Ask) => Promise<Answer>> {
  const path = process.env['KUBECONFIG']
  if (path === undefined) throw new Error('KUBECONFIG is not set: test/cluster/run sets it')
  const endpoint = await fromKubeconfig({ path })
  const credentials = async () => {
    const own = await endpoint.credentials()
    return user === undefined ? own : { ...own, headers: { ...own.headers, 'impersonate-user': user } }
  }
  const transport = createTransport({ endpoint: { ...endpoint, credentials }, userAgent: 'latchkey-tests' })
  return async (ask) => {
    const query = { ...(ask.method !== 'GET' && { fieldValidation: 'Strict' }), ...ask.query }
    const answer = await transport.request({ ...ask, query: ask.method === 'DELETE' ? {} : query })
    if (answer.kind === 'ok') {
      return { status: 200, message: '', fields: [], body: answer.value as Answer['body'] }
    }
    if (answer.status === 0) throw new Error(`the API server did not answer: ${answer.message}`)
    return { status: answer.status, message: answer.message, fields: answer.fields, body: {} }
  }
}

/** Exit code and output of kubectl. */
export interface Printed {
  readonly exitCode: number
  readonly out: string
  readonly error: string
}

/** Invocation of kubectl; `input` is read by `-f -`. */
export interface Command {
  readonly args: readonly string[]
  readonly input?: string
}

/** Runs kubectl as the user of KUBECONFIG, in the repository root. */
export async function kubectl({ args, input = '' }: Command): Promise<Printed> {
  const child = Bun.spawn(['kubectl', ...args], {
    cwd: root,
    stdin: new TextEncoder().encode(input),
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: kubectlMsMax,
  })
  const [out, error] = await Promise.all([child.stdout.text(), child.stderr.text()])
  return { exitCode: await child.exited, out, error }
}
