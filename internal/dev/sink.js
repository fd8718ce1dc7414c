// Asks for newer deliveries each second and puts them at the head of the table; the server escapes what it sends.
const table = document.querySelector('table')
const live = document.querySelector('#live')

async function look() {
  const response = await fetch(`/rows?after=${table.dataset.position}`)
  // The table shows deliveries of a server that was restarted since.
  if (response.status === 410) location.reload()
  if (!response.ok) throw new Error(`status ${response.status}`)
  table.dataset.position = response.headers.get('x-position')
  const made = document.createElement('template')
  made.innerHTML = await response.text()
  if (made.content.childElementCount > 0) document.querySelector('#none')?.remove()
  table.tHead.after(made.content)
  while (table.tBodies.length > Number(table.dataset.kept)) table.tBodies[table.tBodies.length - 1].remove()
  live.textContent = 'Live: new deliveries appear without a reload.'
}

for (;;) {
  await look().catch(() => {
    live.textContent = 'The connection is lost; trying again.'
  })
  await new Promise((resolve) => setTimeout(resolve, 1000))
}
