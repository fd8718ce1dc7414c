import { resolve } from 'node:path'
import { createTransport, fromKubeconfig } from '#internal/kube/index.ts'

const root = resolve(import.meta.dir, '../..')
const kubectlMsMax = 30_000

/** What the API server answered: its status code and its body. */
export interface Answer {
  readonly status: number
  /** Its own words when it refused; empty otherwise. */
  readonly message: string
  /** The fields that a refusal names. */
  readonly fields: readonly string[]
  readonly body: Readonly<Record<string, unknown>>
}

/** What is asked of the API server. */
export interface Ask {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly contentType?: string
}

/** The API server of KUBECONFIG, as its user or as somebody whom that one impersonates. */
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

/** What `kubectl` printed; it runs in the repository, so that files are named as a reader would. */
export interface Printed {
  readonly exitCode: number
  readonly out: string
  readonly error: string
}

/** What kubectl is run with; `input` is what it reads at `-f -`. */
export interface Command {
  readonly args: readonly string[]
  readonly input?: string
}

/** Runs kubectl as the user of KUBECONFIG. */
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
