// Sets the chosen theme before the page is drawn. Without a choice, the system's is used.
const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
