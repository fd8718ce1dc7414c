import { readdir, readFile } from 'node:fs/promises'

/** The pids of a process's children: from /proc where there is one, otherwise by `ps`. */
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
      // One may end between the listing and the read. A name may hold blanks and brackets, and what follows it does not.
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
