import { readdir, readFile } from 'node:fs/promises'

/** Returns the pids of a process's children, from /proc if it exists, else from `ps`. */
export async function childrenOf(pid: number): Promise<number[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const pairs = pids.length > 0 ? await fromProc(pids) : await fromPs()
  return pairs.filter(([, parent]) => parent === pid).map(([child]) => child)
}

type Pair = readonly [pid: number, parent: number]

async function fromProc(pids: readonly number[]): Promise<Pair[]> {
  return Promise.all(
    pids.map(async (pid): Promise<Pair> => {
      // Ignores errors, since a process may end between listing and reading. Its name may contain spaces and parentheses; the fields after
      // the name do not.
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
      const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return [pid, Number(parent ?? 0)]
    }),
  )
}

async function fromPs(): Promise<Pair[]> {
  const ps = Bun.spawn(['ps', '-axo', 'pid=,ppid='], { stdout: 'pipe', stderr: 'ignore' })
  const lines = (await new Response(ps.stdout).text()).trim().split('\n')
  return lines.map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
}
