// The prompt's texts in the languages that it brings along. Pages in English never load this.

import type { PromptTexts } from "./prompt.js";

export const texts: { [language: string]: PromptTexts } = {
  de: {
    title: "Möchten Sie Benachrichtigungen erhalten?",
    body: "",
    accept: "Weiter",
    later: "Nicht jetzt",
    close: "Schließen",
    settings: "Benachrichtigungen einstellen",
    optIn: "Ich möchte Benachrichtigungen erhalten",
    blocked:
      "Benachrichtigungen sind für diese Website blockiert. Sie können sie in den Website-Einstellungen Ihres Browsers zulassen.",
    failed: "Das hat nicht geklappt. Bitte versuchen Sie es noch einmal.",
    away: "Der Dienst für Benachrichtigungen ist gerade nicht erreichbar. Bitte versuchen Sie es später noch einmal.",
    setup: "Diese Website kann gerade keine Benachrichtigungen senden. An Ihnen liegt es nicht.",
    insecure: "Benachrichtigungen brauchen eine sichere Verbindung. Öffnen Sie diese Seite mit https.",
    homeScreen:
      "Auf iPhone und iPad: Tippen Sie auf „Teilen“, dann auf „Zum Home-Bildschirm“, und öffnen Sie diese Website von dort.",
    bell: "Benachrichtigungen einstellen",
  },
  fr: {
    title: "Voulez-vous recevoir des notifications\u00a0?",
    body: "",
    accept: "Continuer",
    later: "Pas maintenant",
    close: "Fermer",
    settings: "Préférences de notification",
    optIn: "Je veux recevoir des notifications",
    blocked:
      "Les notifications sont bloquées pour ce site. Vous pouvez les autoriser dans les paramètres du site de votre navigateur.",
    failed: "Cela n’a pas fonctionné. Veuillez réessayer.",
    away: "Le service de notifications est injoignable pour le moment. Veuillez réessayer plus tard.",
    setup: "Ce site ne peut pas envoyer de notifications pour le moment. Cela ne vient pas de vous.",
    insecure: "Les notifications demandent une connexion sécurisée. Ouvrez cette page en https.",
    homeScreen:
      "Sur iPhone et iPad\u00a0: touchez «\u00a0Partager\u00a0», puis «\u00a0Sur l’écran d’accueil\u00a0», et ouvrez ce site depuis l’écran d’accueil.",
    bell: "Préférences de notification",
  },
  es: {
    title: "¿Quiere recibir notificaciones?",
    body: "",
    accept: "Continuar",
    later: "Ahora no",
    close: "Cerrar",
    settings: "Preferencias de notificaciones",
    optIn: "Quiero recibir notificaciones",
    blocked:
      "Las notificaciones están bloqueadas para este sitio. Puede permitirlas en la configuración del sitio de su navegador.",
    failed: "No ha funcionado. Inténtelo de nuevo.",
    away: "El servicio de notificaciones no está disponible en este momento. Inténtelo más tarde.",
    setup: "Este sitio no puede enviar notificaciones en este momento. No se debe a usted.",
    insecure: "Las notificaciones necesitan una conexión segura. Abra esta página con https.",
    homeScreen:
      "En iPhone y iPad: toque «Compartir», luego «Añadir a pantalla de inicio», y abra este sitio desde la pantalla de inicio.",
    bell: "Preferencias de notificaciones",
  },
  pt: {
    title: "Deseja receber notificações?",
    body: "",
    accept: "Continuar",
    later: "Agora não",
    close: "Fechar",
    settings: "Preferências de notificações",
    optIn: "Quero receber notificações",
    blocked:
      "As notificações estão bloqueadas para este site. Pode permiti-las nas definições do site no seu navegador.",
    failed: "Não funcionou. Tente novamente.",
    away: "O serviço de notificações não está disponível neste momento. Tente mais tarde.",
    setup: "Este site não pode enviar notificações neste momento. O problema não é seu.",
    insecure: "As notificações precisam de uma ligação segura. Abra esta página com https.",
    homeScreen:
      "No iPhone e no iPad: toque em «Partilhar», depois em «Adicionar à Tela de Início», e abra este site a partir dela.",
    bell: "Preferências de notificações",
  },
  hi: {
    title: "क्या आप सूचनाएँ पाना चाहते हैं?",
    body: "",
    accept: "जारी रखें",
    later: "अभी नहीं",
    close: "बंद करें",
    settings: "सूचना की पसंद",
    optIn: "मैं सूचनाएँ पाना चाहता/चाहती हूँ",
    blocked: "इस साइट की सूचनाएँ अवरुद्ध हैं। आप उन्हें अपने ब्राउज़र की साइट सेटिंग में अनुमति दे सकते हैं।",
    failed: "यह नहीं हो पाया। कृपया फिर कोशिश करें।",
    away: "सूचना सेवा तक अभी पहुँचा नहीं जा सकता। कृपया बाद में फिर कोशिश करें।",
    setup: "यह साइट अभी सूचनाएँ नहीं भेज सकती। इसमें आपकी कोई गलती नहीं है।",
    insecure: "सूचनाओं के लिए सुरक्षित कनेक्शन चाहिए। इस पेज को https से खोलें।",
    homeScreen: "iPhone और iPad पर: “शेयर” पर टैप करें, फिर “होम स्क्रीन में जोड़ें” पर, और इस साइट को वहीं से खोलें।",
    bell: "सूचना की पसंद",
  },
};
