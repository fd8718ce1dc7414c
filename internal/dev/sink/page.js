// Puts deliveries at the head of the table as they arrive; the server escapes what it sends.
const table = document.querySelector('table')
const live = document.querySelector('#live')
const source = new EventSource(`/events?after=${table.dataset.position}`)
let arrived = 0

function showState() {
  live.textContent = `Live: new ones appear by themselves${arrived > 0 ? `, ${arrived} so far` : ''}.`
}

source.addEventListener('open', showState)
source.addEventListener('error', () => {
  live.textContent = 'The connection is lost; trying again.'
})
source.addEventListener('deliveries', ({ data }) => {
  const made = document.createElement('template')
  made.innerHTML = JSON.parse(data)
  arrived += made.content.childElementCount
  table.tHead.after(made.content)
  while (table.tBodies.length > Number(table.dataset.kept)) table.tBodies[table.tBodies.length - 1].remove()
  document.querySelector('#none')?.remove()
  showState()
})
// What the table shows is of a run that has ended.
source.addEventListener('restarted', () => location.reload())
