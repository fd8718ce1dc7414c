import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parse } from 'yaml'
import { run } from './program.ts'

const kind = parse(readFileSync(resolve(import.meta.dir, '../../config/kind.yaml'), 'utf8')) as {
  nodes: { extraPortMappings: { containerPort: number; hostPort: number; listenAddress: string }[] }[]
}

/** Port that config/kind.yaml leads out of the cluster, and the address and port of the host for it. */
export function publishedPort() {
  const [port] = kind.nodes.flatMap(({ extraPortMappings }) => extraPortMappings)
  if (!port) throw new Error('no port leads out of config/kind.yaml')
  return port
}

/** Forwards the host's port of config/kind.yaml to a server, as Docker does. The caller stops it. */
export function publish(target: string) {
  const { hostPort, listenAddress } = publishedPort()
  return Bun.serve({
    hostname: listenAddress,
    port: hostPort,
    // Longer than a pull, which waits up to 20 s.
    idleTimeout: 60,
    async fetch({ url, method, headers, body }) {
      const { pathname, search } = new URL(url)
      return fetch(`${target}${pathname}${search}`, { method, headers, body })
    },
  })
}

/** Forwards the host's port of config/kind.yaml to the node, as Docker does. The caller stops it. */
export async function publishNode() {
  const path = ['-o', 'jsonpath={.items[0].status.addresses[0].address}']
  const node = await run(['kubectl', 'get', 'nodes', ...path])
  return publish(`http://${node}:${publishedPort().containerPort}`)
}

/** Returns the environment in which `node/docker-and-kind` stands in for docker and kind, with its state in a folder. */
export function standInEnv(folder: string): Readonly<Record<string, string>> {
  const programs = join(folder, 'bin')
  mkdirSync(programs, { recursive: true })
  for (const name of ['docker', 'kind']) {
    if (!existsSync(join(programs, name)))
      symlinkSync(join(import.meta.dir, 'node/docker-and-kind'), join(programs, name))
  }
  return {
    PATH: `${programs}:${process.env['PATH']}`,
    KUBECONFIG: join(folder, 'kubeconfig'),
    STAND_IN: folder,
    NODE_STATE: dirname(process.env['KUBECONFIG'] ?? ''),
  }
}
